// Package migrate turns the configuration of a Debezium connector with the outbox event router into this program's
// configuration, and accounts for every option of it: no option is dropped silently. It is pure: it reads no file and
// connects to no server.
//
// The files, in the order to read them: input.go (the forms a configuration comes in) · report.go (what is reported
// about an option) · migrate.go, rule.go (how options meet rules) · rules_*.go (the tables of rules) · event_router.go,
// converters.go (rules that need code) · postgres.go, kafka.go, tables.go (settings built from several options) ·
// yaml.go · steps.go.
package migrate
