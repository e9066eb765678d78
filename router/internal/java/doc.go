// Package java does what some classes of Java's library do, where bytes that consumers see depend on them: regular
// expressions and their replacements (java.util.regex), numbers as text (Double, Float, BigDecimal) and property
// files (java.util.Properties).
package java
