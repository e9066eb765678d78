//go:build race

package main

func init() { buildFlags = "-race" }
