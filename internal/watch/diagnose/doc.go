// Package diagnose says why the slot does not move, and judges the relay as package slotmonitor judges the slot. It is
// pure: the connector's account of itself and the slot's figures in, a cause and findings out.
package diagnose
