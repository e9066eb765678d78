// Package config reads the configuration: defaults, then a YAML file, then CDC_OUTBOX_… environment variables, then
// flags, each layer over the one before. The structs in config.go are the only place where a key is declared; variables,
// flags, the reference in docs/configuration.md and the search for misspelled keys are all derived from them.
//
// Load reports every problem it finds at once, and no secret ever: a Secret cannot be printed, only read.
package config
