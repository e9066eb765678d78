// Package wiring takes from the configuration the settings of each part of the program: the producer, the table reader,
// the polling relay, the slot monitor. The parts get values and do not know the configuration. The package opens no
// connection.
package wiring
