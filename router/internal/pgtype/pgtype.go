// Package pgtype turns column values, as the text Postgres prints, into the values that Debezium's PostgreSQL connector
// produces: a Connect schema by the column's type, and a value for each text. Types and modes follow Debezium 3.6
// (PostgresValueConverter).
package pgtype

import (
	"errors"
	"strconv"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// Options are the connector's options that decide how values look; the words are Debezium's.
type Options struct {
	Decimal  string // precise, double, string
	Time     string // adaptive, adaptive_time_microseconds, connect, microseconds, nanoseconds, isostring
	Binary   string // bytes, base64, base64-url-safe, hex
	HStore   string // json, map
	Interval string // numeric, string
}

// Info is the catalogs' information about a type whose OID is not fixed.
type Info struct {
	Name         string   // typname
	Enum         bool     // with Labels
	Labels       []string // in sort order
	Base         uint32   // of a domain, otherwise 0
	BaseModifier int32
	Element      uint32 // of an array, otherwise 0
}

// Lookup finds a type by OID.
type Lookup func(oid uint32) (Info, bool)

// Converter converts the values of one column.
type Converter struct {
	Schema  *connect.Schema // not optional
	Plain   bool            // the value is a string, the text as it is
	Convert func(text []byte) (connect.Value, error)
}

var errMalformed = errors.New("the text is not a value of the column's type")

// New returns the converter of a type. It is nil for types that Debezium leaves out of its records. An OID that neither
// Postgres fixes nor lookup knows is taken for a type of text, as enums, citext and most domains are.
func (o Options) New(oid uint32, modifier int32, lookup Lookup) *Converter {
	if build := builtin[oid]; build != nil {
		return build(o, modifier)
	}
	if element := arrays[oid]; element != 0 {
		return o.array(o.New(element, modifier, lookup))
	}
	if oid < FirstNormalOID {
		return nil
	}
	info, known := Info{}, false
	if lookup != nil {
		info, known = lookup(oid)
	}
	switch {
	case !known:
		return text("")
	case info.Base != 0:
		if modifier < 0 {
			modifier = info.BaseModifier
		}
		return o.New(info.Base, modifier, lookup)
	case info.Enum:
		c := text("io.debezium.data.Enum")
		c.Schema.Parameters = []connect.Parameter{{Name: "allowed", Value: strings.Join(info.Labels, ",")}}
		return c
	case info.Element != 0:
		return o.array(o.New(info.Element, modifier, lookup))
	}
	if build := extension[info.Name]; build != nil {
		return build(o, modifier)
	}
	return nil
}

// FirstNormalOID is FirstNormalObjectId (src/include/access/transam.h): OIDs below are the system's own.
const FirstNormalOID = 16384

type builder func(o Options, modifier int32) *Converter

// builtin are the types of pg_type.dat that Debezium converts. Not among them, and so left out of its records, are for
// instance the other geometric types, pg_lsn, tsquery, xid and multiranges.
var builtin map[uint32]builder

// extension are types of extensions, by name.
var extension map[string]builder

func init() { // as the builders refer to New
	plain := func(schemaName string) builder {
		return func(Options, int32) *Converter { return text(schemaName) }
	}
	builtin = map[uint32]builder{
		16: boolean, 17: Options.bytea, 18: plain(""), 19: plain(""), 20: integer(connect.Int64),
		21: integer(connect.Int16), 23: integer(connect.Int32), 25: plain(""), 26: integer(connect.Int64),
		114: plain(jsonName), 142: plain("io.debezium.data.Xml"), 600: point, 650: plain(""),
		700: float(connect.Float32), 701: float(connect.Float64), 774: plain(""), 790: Options.money, 829: plain(""),
		869: plain(""), 1042: plain(""), 1043: plain(""), 1082: Options.date, 1083: Options.time,
		1114: Options.timestamp, 1184: Options.timestamptz, 1186: Options.interval, 1266: timetz, 1560: bits,
		1562: bits, 1700: Options.numeric, 2950: plain("io.debezium.data.Uuid"),
		3614: plain("io.debezium.data.Tsvector"), 3802: plain(jsonName), 3904: plain(""), 3906: plain(""),
		3908: plain(""), 3910: plain(""), 3912: plain(""), 3926: plain(""),
	}
	extension = map[string]builder{
		"citext": plain(""), "isbn": plain(""), "ltree": plain("io.debezium.data.Ltree"), "hstore": Options.hstore,
		"geometry": geometry("Geometry", true), "geography": geometry("Geography", false),
		"vector":  vector(connect.Float64, "io.debezium.data.DoubleVector"),
		"halfvec": vector(connect.Float32, "io.debezium.data.FloatVector"),
	}
}

const jsonName = "io.debezium.data.Json"

// text makes the converter of a type whose text is its value. Logical types have version 1.
func text(schemaName string) *Converter {
	s := &connect.Schema{Type: connect.String, Name: schemaName}
	if schemaName != "" {
		s.Version = 1
	}
	return &Converter{Schema: s, Plain: true, Convert: func(b []byte) (connect.Value, error) {
		return connect.Text(b), nil
	}}
}

func boolean(Options, int32) *Converter {
	return &Converter{Schema: &connect.Schema{Type: connect.Boolean}, Convert: func(b []byte) (connect.Value, error) {
		switch string(b) {
		case "t":
			return connect.Value{Kind: connect.KindBool, Int: 1}, nil
		case "f":
			return connect.Value{Kind: connect.KindBool}, nil
		}
		return connect.Value{}, errMalformed
	}}
}

func integer(t connect.Type) builder {
	return func(Options, int32) *Converter {
		return &Converter{Schema: &connect.Schema{Type: t}, Convert: func(b []byte) (connect.Value, error) {
			n, err := strconv.ParseInt(string(b), 10, 64)
			if err != nil {
				return connect.Value{}, errMalformed
			}
			return connect.Int(n), nil
		}}
	}
}

func float(t connect.Type) builder {
	kind, size := connect.KindFloat64, 64
	if t == connect.Float32 {
		kind, size = connect.KindFloat32, 32
	}
	return func(Options, int32) *Converter {
		return &Converter{Schema: &connect.Schema{Type: t}, Convert: func(b []byte) (connect.Value, error) {
			f, err := strconv.ParseFloat(string(b), size)
			if err != nil {
				return connect.Value{}, errMalformed
			}
			return connect.Value{Kind: kind, Float: f}, nil
		}}
	}
}
