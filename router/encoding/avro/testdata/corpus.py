"""Writes fastavro.json: random schemas and documents, and what fastavro encodes of them.

    pip install fastavro && python3 corpus.py > fastavro.json
"""

import datetime
import decimal
import io
import json
import random
import string
import sys
import uuid

import fastavro

r = random.Random(20261130)
names = iter(f"N{i}" for i in range(1_000_000))
UTC = datetime.timezone.utc


def text():
    return "".join(r.choice(string.ascii_letters + ' "\\\n/äß€😀') for _ in range(r.randrange(12)))


def make(depth):
    """A schema, and a function that makes a value for fastavro and the same value as JSON (numbers as text)."""
    kinds = ["boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed", "decimal", "decimal",
             "date", "timestamp-millis", "timestamp-micros", "uuid"]
    if depth > 0:
        kinds += ["record", "record", "record", "array", "map", "nullable", "union"]
    kind = r.choice(kinds)
    if kind == "boolean":
        return kind, lambda: (lambda v: (v, json.dumps(v)))(r.random() < 0.5)
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        return kind, lambda: (lambda v: (v, str(v)))(r.choice([0, -1, 2**bits - 1, -2**bits, 2**53 + 1 if bits == 63 else 7,
                                                               r.randrange(-2**bits, 2**bits)]))
    if kind == "float":
        return kind, lambda: (lambda v: (v, repr(v)))(r.choice([0.0, 1.5, -0.1, 1e-30, 3.4e38, r.random()]))
    if kind == "double":
        return kind, lambda: (lambda v: (v, repr(v)))(r.choice([0.0, 0.1, -1e308, 5e-324, 12.25, r.random() * 10**r.randrange(-20, 20)]))
    if kind == "bytes":
        return kind, lambda: (lambda v: (v, json.dumps(v.decode("latin1"))))(r.randbytes(r.randrange(9)))
    if kind == "string":
        return kind, lambda: (lambda v: (v, json.dumps(v, ensure_ascii=r.random() < 0.5)))(text())
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": next(names), "symbols": symbols}, lambda: (lambda v: (v, json.dumps(v)))(r.choice(symbols))
    if kind == "fixed":
        size = r.randrange(1, 9)
        return {"type": "fixed", "name": next(names), "size": size}, lambda: (lambda v: (v, json.dumps(v.decode("latin1"))))(r.randbytes(size))
    if kind == "decimal":
        precision = r.choice([1, 9, 18, 19, 38])
        scale = r.randrange(0, precision + 1)
        schema = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        if r.random() < 0.5:
            schema |= {"type": "fixed", "name": next(names), "size": 17}

        def value():
            unscaled = r.choice([0, 1, -1, 10**precision - 1, r.randrange(-10**precision + 1, 10**precision)])
            v = decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=100))
            shown = format(v, "f")
            return v, shown if r.random() < 0.5 else json.dumps(shown)
        return schema, value
    if kind == "date":
        return {"type": "int", "logicalType": kind}, lambda: (lambda v: (v, json.dumps(v.isoformat())))(
            datetime.date.fromordinal(r.randrange(1, 3_652_059)))
    if kind.startswith("timestamp"):
        def stamp():
            v = datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(microseconds=r.randrange(-10**16, 10**17))
            if kind.endswith("millis"):
                v = v.replace(microsecond=v.microsecond // 1000 * 1000)
            zone = datetime.timezone(datetime.timedelta(minutes=r.choice([0, 60, -330])))
            return v, json.dumps(v.astimezone(zone).isoformat())
        return {"type": "long", "logicalType": kind}, stamp
    if kind == "uuid":
        return {"type": "string", "logicalType": "uuid"}, lambda: (lambda v: (v, json.dumps(str(v))))(uuid.UUID(bytes=r.randbytes(16)))
    if kind == "array":
        items, value = make(depth - 1)

        def array():
            all = [value() for _ in range(r.choice([0, 1, 3, 70]))]
            return [v for v, _ in all], "[" + ", ".join(j for _, j in all) + "]"
        return {"type": "array", "items": items}, array
    if kind == "map":
        items, value = make(depth - 1)

        def mapping():
            all = [(f"k{i}", *value()) for i in range(r.randrange(4))]
            return {k: v for k, v, _ in all}, "{" + ",".join(f'"{k}": {j}' for k, _, j in all) + "}"
        return {"type": "map", "values": items}, mapping
    if kind == "nullable":
        while True:
            inner, value = make(depth - 1)
            if not isinstance(inner, list):
                break
        return ["null", inner], lambda: (None, "null") if r.random() < 0.3 else value()
    if kind == "union":
        value, other = r.randrange(-2**60, 2**60), text()
        return ["null", "string", "long", "double"], lambda: r.choice(
            [(None, "null"), (value, str(value)), (other, json.dumps({"string": other})), (0.5, "0.5")])
    fields = [(f"f{i}", *make(depth - 1)) for i in range(r.randrange(1, 6))]

    def record():
        all = [(name, *value()) for name, _, value in fields]
        members = [f'"{name}":{shown}' for name, _, shown in all]
        r.shuffle(members)
        return {name: v for name, v, _ in all}, "{" + ", ".join(members) + "}"
    return {"type": "record", "name": next(names), "fields": [{"name": n, "type": t} for n, t, _ in fields]}, record


lines = []
while len(lines) < 250:
    schema, value = make(3)
    v, document = value()
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), v)
    line = json.dumps({"schema": schema, "document": document, "encoded": out.getvalue().hex()}, ensure_ascii=False)
    if len(line) < 2000:
        lines.append(line)
sys.stdout.write("[\n" + ",\n".join(lines) + "\n]\n")
