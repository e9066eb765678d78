// Package inventory looks at what a database has that a configuration names, and writes a first configuration file.
package inventory
