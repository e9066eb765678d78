// Package alert follows findings from check to check and makes events of them: an alert begins, gets worse or milder,
// still fires, or has ended. The findings' subjects, and the rules that make them, are the callers' matter.
//
// An alert gets worse at once and milder only when several checks in a row agree, so a value that moves around its
// threshold does not switch it on and off. One that a worse alert about the same subject supersedes ends at once.
//
// The engine is pure. Monitor runs it on a clock, for callers without a clock of their own.
package alert
