package outbox

import (
	"encoding/hex"
	"encoding/json"
)

// PayloadType is the type of the payload column.
type PayloadType string

const (
	JSONB PayloadType = "jsonb" // checked, and stored in Postgres' own form: keys ordered, white space normalized
	JSON  PayloadType = "json"  // checked, and stored and published byte for byte
	Text  PayloadType = "text"  // any text, byte for byte
	Bytea PayloadType = "bytea" // any bytes: Avro, Protobuf
)

func (t PayloadType) known() bool {
	return t == JSONB || t == JSON || t == Text || t == Bytea
}

// text returns the payload in the column's text form, nil for NULL.
func (t PayloadType) text(payload any) (*string, *EventError) {
	b, asIs := verbatim(payload, t)
	switch {
	case asIs && b == nil:
		return nil, nil
	case !asIs:
		var err error
		if b, err = json.Marshal(payload); err != nil {
			return nil, &EventError{Field: "Payload", Detail: "cannot be marshalled to JSON", Err: err}
		}
	case (t == JSONB || t == JSON) && !json.Valid(b):
		return nil, invalid("Payload", "not valid JSON, and the column is of type %s", t)
	}
	if t == Bytea {
		s := `\x` + hex.EncodeToString(b)
		return &s, nil
	}
	s := string(b)
	if err := checkText("Payload", s); err != nil {
		return nil, err
	}
	return &s, nil
}

// verbatim returns the bytes of a payload that is written unchanged, and whether the payload is. nil bytes are NULL.
func verbatim(payload any, t PayloadType) ([]byte, bool) {
	switch p := payload.(type) {
	case nil:
		return nil, true
	case []byte:
		return p, true
	case json.RawMessage:
		return p, true
	case string:
		// A Go string in a JSON column is ambiguous. Marshalling it always produces valid JSON.
		if t == Text || t == Bytea {
			return append([]byte{}, p...), true
		}
	}
	return nil, false
}
