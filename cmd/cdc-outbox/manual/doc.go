// Package manual renders the commands as manual pages, from the same texts as --help.
package manual
