// Package migrate turns the configuration of a Debezium connector with the outbox event router into this program's, and
// accounts for every option of it: nothing is swallowed. It is pure: it reads no file and asks no server.
//
// The files, in the order to read them: input.go (the forms a configuration comes in) · report.go (what is said about an
// option) · migrate.go (how options meet rules) · connector.go, event_router.go, converters.go, worker.go (the rules)
// · postgres.go, kafka.go, tables.go (settings made of several options) · yaml.go · steps.go.
package migrate
