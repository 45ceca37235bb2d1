"""A stand-in for Apache Doris, written from its wire protocol; see `cdc_standins`."""
