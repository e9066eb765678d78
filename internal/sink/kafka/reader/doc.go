// Package reader reads ranges of topics for the commands that repair, replay and compare. It joins no group and commits
// nothing.
package reader
