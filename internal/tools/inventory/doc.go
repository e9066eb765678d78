// Package inventory finds the objects of a database that a configuration names, and writes a first configuration file.
package inventory
