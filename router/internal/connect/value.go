package connect

// Kind is the kind of a Value. It follows the Java class a converter sees, not the schema.
type Kind uint8

const (
	KindNull    Kind = iota
	KindBool         // Int 0 or 1
	KindInt          // Byte, Short, Integer, Long
	KindFloat32      // Float
	KindFloat64      // Double
	KindDecimal      // BigDecimal; Data is its plain text
	KindText         // String
	KindBytes        // ByteBuffer or byte[]
	KindList         // List
	KindMap          // HashMap; List holds key, value, key, value, …
	KindDate         // java.util.Date; Int is the logical type's number, Data the text of a header
	KindStruct       // Struct; List holds the values of Schema's fields
)

// Value is a value. Data and List may belong to the code that built it.
type Value struct {
	Kind   Kind
	Int    int64
	Float  float64
	Data   []byte
	List   []Value
	Schema *Schema // of a struct
}

// Text makes a string.
func Text(b []byte) Value { return Value{Kind: KindText, Data: b} }

// Int makes a whole number.
func Int(n int64) Value { return Value{Kind: KindInt, Int: n} }
