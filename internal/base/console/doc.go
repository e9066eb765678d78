// Package console writes the output of commands for people: findings, remedies, paragraphs that fit the terminal. It is
// pure but for the writer: control characters are made visible, nothing is asked.
package console
