"""Messages off the brokers as columns: librdkafka's own functions and a kernel, without an object per message."""
