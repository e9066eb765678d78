// Command waits refuses tests that a busy machine can turn red: sleeps in real time, and deadlines that are short
// although a long one costs nothing as long as the test is green. It runs under `go vet -vettool`.
//
// In files that end in _test.go, outside of synctest bubbles, it refuses
//
//   - time.Sleep and a plain <-time.After: wait for a signal, or poll;
//   - Eventually, Eventuallyf, EventuallyWithT and EventuallyWithTf of testify that give up within 30 seconds;
//   - <-time.After with less than 30 seconds as a case of a select.
//
// A function literal is in a bubble if it, or a literal around it, is passed to synctest.Test, or to a function that is
// marked itself. `//waits:bubble` as a line of a function's doc comment, or on the line of a function literal or above
// it, marks a function that runs in bubbles alone. `//waits:ok REASON` on the line or above it allows one wait.
//
// context.WithTimeout is left alone: half of the short ones in tests are the case under test, a call that has to give
// up.
package main

import "golang.org/x/tools/go/analysis/unitchecker"

func main() { unitchecker.Main(analyzer) }
