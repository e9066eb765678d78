// Package java behaves as some classes of Java's library on which bytes that consumers see depend: regular
// expressions and their replacements (java.util.regex) and numbers as text (Double, Float, BigDecimal). Property files
// are in internal/base/properties.
package java
