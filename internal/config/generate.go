package config

//go:generate go run ./gen
