// Package migrate turns the configuration of a Debezium connector with the outbox event router into this program's
// configuration, and accounts for every option of it: no option is dropped silently. It is pure: it reads no file and
// connects to no server.
package migrate
