// Package config reads the configuration: defaults, then a YAML file, then CDC_OUTBOX_… environment variables, then
// flags. Each layer overrides the layers before it.
//
// The structs are the only place where a key is declared. A struct tag holds the key, its default, the allowed values
// and an example; the comment above the field documents it. Variables, flags, help texts, the suggestions for
// misspelled keys and docs/configuration.md are derived from them; run go generate after a change.
//
// Load reports all problems at once, and never a secret: a Secret cannot be printed, only read.
package config
