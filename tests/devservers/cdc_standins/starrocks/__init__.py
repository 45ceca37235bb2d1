"""The StarRocks stand-in: front end, back end and MySQL port, made from what is public about the server's protocols.

It refuses what the server refuses, with the server's messages where they are known, and refuses what it does not know.

    types, schema, catalog      tables and their columns          transactions, publisher    labels and states
    definitions, alter, jobs    DDL and schema changes            headers, plan, load, rows  from bytes to staged rows
    session, select, show       the MySQL port                    frontend_http, backend_http, backend   HTTP
"""
