// Package java does what some classes of Java's library do, where bytes that consumers see depend on them: regular
// expressions and their replacements (java.util.regex) and numbers as text (Double, Float, BigDecimal). Property files
// are in internal/base/properties.
package java
