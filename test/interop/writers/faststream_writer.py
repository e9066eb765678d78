"""Writes with faststream-outbox: python faststream_writer.py DSN create, python faststream_writer.py DSN write."""

import asyncio
import sys

from faststream_outbox import OutboxBroker, make_outbox_table
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine


async def main(dsn, what):
    metadata = MetaData()
    table = make_outbox_table(metadata, table_name="outbox")
    url = dsn.split("?")[0].replace("postgres://", "postgresql://").replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url)
    broker = OutboxBroker(engine, outbox_table=table)
    async with engine.begin() as connection:
        if what == "create":
            await connection.run_sync(metadata.create_all)
        else:
            await broker.publish({"order": 8}, queue="orders", session=connection, headers={"key": "o-8"})
    await engine.dispose()


asyncio.run(main(*sys.argv[1:]))
