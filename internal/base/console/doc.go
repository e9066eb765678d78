// Package console writes what commands print for people: findings, remedies, paragraphs that fit the terminal. It is
// pure but for the writer: what a terminal would obey is made visible, nothing is asked.
package console
