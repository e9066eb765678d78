package main

import "cmp"

// loadName is how tables call a load.
func loadName(key string) string {
	switch key {
	case tenPerTx:
		return "10 rows per transaction"
	case onePerTx:
		return "1 row per transaction"
	default:
		return cmp.Or(conditionName(key), key)
	}
}
