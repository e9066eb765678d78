package pgtype

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
	"github.com/cdc-outbox/cdc-outbox/router/internal/java"
)

const decimalName = "org.apache.kafka.connect.data.Decimal"

// errNotFinite: with decimal_handling precise Debezium logs a warning and puts null in the value's place.
var errNotFinite = errors.New("NaN and infinity have no precise decimal; decimal_handling string or double " +
	"can hold them")

// moneyDigits is Debezium's default of money.fraction.digits.
const moneyDigits = 2

// numeric without precision has a scale per value, which Connect's Decimal cannot hold: a struct takes its place.
func (o Options) numeric(modifier int32) *Converter {
	if o.Decimal != "precise" {
		return o.inexact(parseDecimal)
	}
	if modifier < 4 {
		return variableScale()
	}
	precision, scale := int(modifier-4)>>16&0xffff, int(modifier-4)&0xffff
	return &Converter{
		Schema: &connect.Schema{Type: connect.Bytes, Name: decimalName, Version: 1, Parameters: []connect.Parameter{
			{Name: "scale", Value: strconv.Itoa(scale)},
			{Name: "connect.decimal.precision", Value: strconv.Itoa(precision)},
		}},
		Convert: func(b []byte) (connect.Value, error) {
			if _, err := parseDecimal(b); err != nil {
				return connect.Value{}, err
			}
			return connect.Value{Kind: connect.KindDecimal, Data: b}, nil
		},
	}
}

func parseDecimal(b []byte) (java.Decimal, error) {
	switch string(b) {
	case "NaN", "Infinity", "-Infinity":
		return java.Decimal{}, errNotFinite
	}
	d, ok := java.ParseDecimal(b)
	if !ok {
		return d, errMalformed
	}
	return d, nil
}

func variableScale() *Converter {
	s := &connect.Schema{
		Type: connect.Struct, Name: "io.debezium.data.VariableScaleDecimal", Version: 1, Doc: "Variable scaled decimal",
		Fields: []connect.Field{
			{Name: "scale", Schema: &connect.Schema{Type: connect.Int32}},
			{Name: "value", Schema: &connect.Schema{Type: connect.Bytes}},
		},
	}
	return &Converter{Schema: s, Convert: func(b []byte) (connect.Value, error) {
		d, err := parseDecimal(b)
		if err != nil {
			return connect.Value{}, err
		}
		d = d.StripTrailingZeros()
		return connect.Value{Kind: connect.KindStruct, Schema: s, List: []connect.Value{
			connect.Int(int64(d.Scale)), {Kind: connect.KindBytes, Data: d.Unscaled()},
		}}, nil
	}}
}

// inexact makes the converter for the modes double and string.
func (o Options) inexact(parse func([]byte) (java.Decimal, error)) *Converter {
	if o.Decimal == "string" {
		c := text("")
		c.Plain = false
		c.Convert = func(b []byte) (connect.Value, error) {
			d, err := parse(b)
			if errors.Is(err, errNotFinite) {
				return connect.Text([]byte(specialName[string(b)])), nil
			}
			return connect.Text(d.AppendPlain(nil)), err
		}
		return c
	}
	return &Converter{Schema: &connect.Schema{Type: connect.Float64}, Convert: func(b []byte) (connect.Value, error) {
		d, err := parse(b)
		if errors.Is(err, errNotFinite) {
			f, _ := strconv.ParseFloat(string(b), 64) // which knows these words
			return connect.Value{Kind: connect.KindFloat64, Float: f}, nil
		}
		if err != nil {
			return connect.Value{}, err
		}
		f := d.Float64()
		if math.IsInf(f, 0) {
			return connect.Value{}, errors.New("the number is beyond a double; decimal_handling string can hold it")
		}
		return connect.Value{Kind: connect.KindFloat64, Float: f}, nil
	}}
}

// specialName is the result of SpecialValueDecimal.toString: the names of its constants.
var specialName = map[string]string{"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}

// money reads the amount as lc_monetary prints it, as Debezium does: a sign or parentheses, one character of currency,
// commas between thousands, a point before the fraction. It cannot read the format of other locales.
func (o Options) money(int32) *Converter {
	if o.Decimal != "precise" {
		return o.inexact(parseMoney)
	}
	return &Converter{
		Schema: &connect.Schema{
			Type: connect.Bytes, Name: decimalName, Version: 1,
			Parameters: []connect.Parameter{{Name: "scale", Value: strconv.Itoa(moneyDigits)}},
		},
		Convert: func(b []byte) (connect.Value, error) {
			d, err := parseMoney(b)
			if err != nil {
				return connect.Value{}, err
			}
			return connect.Value{Kind: connect.KindDecimal, Data: d.AppendPlain(nil)}, nil
		},
	}
}

func parseMoney(b []byte) (java.Decimal, error) {
	negative := len(b) > 0 && (b[0] == '-' || b[0] == '(')
	if negative {
		b = bytes.TrimSuffix(b[1:], []byte(")"))
	}
	for len(b) > 0 && (b[0] < '0' || b[0] > '9') && b[0] != '.' {
		b = b[1:]
	}
	plain := make([]byte, 0, len(b)+1)
	if negative {
		plain = append(plain, '-')
	}
	for _, c := range b {
		if c != ',' {
			plain = append(plain, c)
		}
	}
	d, ok := java.ParseDecimal(plain)
	if !ok || d.Scale != moneyDigits {
		return java.Decimal{},
			errors.New("the amount is not printed with two decimals after a point, as with lc_monetary en_US or C")
	}
	return d, nil
}
