package migrate

import "strings"

var converterWords = map[string]string{
	"org.apache.kafka.connect.storage.StringConverter":       "string",
	"io.debezium.converters.BinaryDataConverter":             "binary",
	"io.debezium.converters.ByteArrayConverter":              "binary",
	"io.debezium.converters.ByteBufferConverter":             "binary",
	"org.apache.kafka.connect.converters.ByteArrayConverter": "binary",
}

const jsonConverter = "org.apache.kafka.connect.json.JsonConverter"

// converter is the rule for key.converter and value.converter.
func converter(side string) rule {
	key := "router.debezium." + side + "_converter"
	return func(m *migration, class string) outcome {
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

func headerConverter(m *migration, class string) outcome {
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
	if strings.Contains(class, "Avro") || strings.Contains(class, "Protobuf") || strings.Contains(class, "JsonSchema") || strings.Contains(class, "apicurio") {
		return "It encodes for a schema registry, which is not done here: the bytes would differ. If the application encodes payloads itself (bytea), take Debezium's BinaryDataConverter first, and binary here."
	}
	return "Records as this converter writes them cannot be made here."
}

// converterOption judges what belongs to a converter.
func converterOption(m *migration, rest, value string) outcome {
	switch {
	case rest == "schemas.enable":
		return outcome{Translated, "", "Decides between json and json_with_schema."}
	case rest == "schemas.cache.size", rest == "converter.type":
		return outcome{Without, "", "It changes no byte."}
	case rest == "replace.null.with.default":
		if strings.EqualFold(value, "false") {
			return outcome{Decide, "", "NULL stays NULL where a column has a default: check columns with defaults among key, headers and envelope fields."}
		}
		return outcome{Without, "", "The default."}
	case rest == "decimal.format":
		if strings.EqualFold(value, "numeric") {
			return outcome{Decide, "", "Decimals as JSON numbers: it matters for numeric columns with json converters only. Compare side by side."}
		}
		return outcome{Without, "", "The default."}
	case rest == "encoding", rest == "converter.encoding":
		if strings.EqualFold(value, "UTF-8") || strings.EqualFold(value, "UTF8") {
			return outcome{Without, "", "The default."}
		}
		return outcome{Refused, "", "Text is UTF-8 here."}
	case strings.HasPrefix(rest, "delegate.converter.type"):
		return outcome{Decide, "", "Rows without bytes go through this converter: that is the transaction metadata and heartbeats, or a payload that is no bytea. Check that the payload column is bytea."}
	case strings.Contains(rest, "schema.registry"), strings.Contains(rest, "apicurio"), strings.Contains(rest, "basic.auth"), strings.Contains(rest, "auto.register"), strings.Contains(rest, "subject.name"):
		return outcome{Refused, "", "No schema registry is asked."}
	}
	return outcome{Unknown, "", "An option of the converter that this version does not know; find out whether it changes bytes."}
}
