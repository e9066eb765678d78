// Package lastword keeps why a relay ended in the checkpoint's table: when, with which exit code, on which host, and
// what to do. A process that has ended cannot be asked, its log may be far away, and `status` would otherwise report
// only that nothing reads the slot. The next start logs the word, and marks it as over once the relay works again.
//
// The word holds what an error of package fault says, which never is a payload, a password or a connection string.
// Where Postgres cannot be reached, or the table or its column do not exist, nothing is kept.
package lastword
