package config

//go:generate go test -run ^TestReference$ -update .
