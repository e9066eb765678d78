// Package identifier reads, checks and quotes the names that Postgres gives to tables, columns, slots, publications and
// roles. It works on text only and imports the standard library alone, so formats and configuration can name a table
// without linking a database client.
package identifier
