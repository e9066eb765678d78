// Package sqlstate says what a server's error asks for, by its SQLSTATE (Postgres docs, appendix A), and shows the
// error without the data that it may quote.
package sqlstate
