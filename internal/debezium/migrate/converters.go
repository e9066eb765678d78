package migrate

import (
	"slices"
	"strings"
)

var converterWords = map[string]string{
	"org.apache.kafka.connect.storage.StringConverter":       "string",
	"io.debezium.converters.BinaryDataConverter":             "binary",
	"io.debezium.converters.ByteArrayConverter":              "binary",
	"io.debezium.converters.ByteBufferConverter":             "binary",
	"org.apache.kafka.connect.converters.ByteArrayConverter": "binary",
}

const jsonConverter = "org.apache.kafka.connect.json.JsonConverter"

// converter is the rule for key.converter and value.converter.
func converter(side string) func(*migration, string, string) outcome {
	key := "router.debezium." + side + "_converter"
	return func(m *migration, _, class string) outcome {
		if class == jsonConverter {
			word := m.jsonWord(side + ".converter")
			m.out.set(key, word)
			return outcome{Translated, key, word}
		}
		word, ok := converterWords[class]
		switch {
		case !ok:
			return outcome{Refused, key, noConverter(class)}
		case word == "binary":
			m.out.set(key, word)
			return outcome{Translated, key, "binary: only for a bytea column, as in Connect."}
		}
		m.out.set(key, word)
		return outcome{Translated, key, word}
	}
}

func headerConverter(m *migration, _, class string) outcome {
	const key = "router.debezium.header_converter"
	switch class {
	case "org.apache.kafka.connect.storage.SimpleHeaderConverter":
		return outcome{Translated, key, "simple, the default."}
	case "org.apache.kafka.connect.storage.StringConverter":
		m.out.set(key, "string")
		return outcome{Translated, key, "string"}
	case jsonConverter:
		word := m.jsonWord("header.converter")
		m.out.set(key, word)
		return outcome{Translated, key, word}
	}
	return outcome{Refused, key, noConverter(class)}
}

// jsonWord: schemas are on unless they are switched off.
func (m *migration) jsonWord(converter string) string {
	if strings.EqualFold(m.in.value(converter+".schemas.enable"), "false") {
		return "json"
	}
	return "json_with_schema"
}

func noConverter(class string) string {
	registry := []string{"Avro", "Protobuf", "JsonSchema", "apicurio"}
	if slices.ContainsFunc(registry, func(s string) bool { return strings.Contains(class, s) }) {
		return "It encodes for a schema registry, which this program does not use: the bytes would differ. If the " +
			"application encodes payloads itself (bytea), switch to Debezium's BinaryDataConverter first, and use " +
			"binary here."
	}
	return "This program cannot write records in the format of this converter."
}

// serverFormat judges debezium.format.key and debezium.format.value.
func serverFormat(side string) func(*migration, string, string) outcome {
	key := "router.debezium." + side + "_converter"
	return func(m *migration, _, value string) outcome {
		word := ""
		switch strings.ToLower(value) {
		case "json":
			word = m.jsonWord("debezium.format." + side)
		case "simplestring":
			word = "string"
		case "binary":
			word = "binary"
		default:
			return outcome{Refused, key, "Only json, simplestring and binary give the same result here."}
		}
		m.out.set(key, word)
		return outcome{Translated, key, word}
	}
}

func serverHeaderFormat(m *migration, _, value string) outcome {
	const key = "router.debezium.header_converter"
	if value != "json" {
		return outcome{Refused, key, "Only json gives the same result here."}
	}
	word := m.jsonWord("debezium.format.header")
	m.out.set(key, word)
	return outcome{Translated, key, word}
}
