"""StarRocks 2.5 and later: tables with a primary key are upserted, loads go through the transaction interface."""
