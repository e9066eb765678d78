// Package postgres knows the server: how to connect to it, what its errors ask for, and what its catalogs say about
// slots, publications, tables and relations of the log. Objects names the objects of the relay there and writes the SQL
// that remedies show.
//
// The judgements on a slot (UnusableSlot, SlotGone, WrongRole, Checkpoint.Judge and others) are pure: facts go in, a
// finding or an error comes out. The stream, setup and check share them, so that one fault has one text wherever it is
// met. What is to be created, and every check that needs more than a slot, is in internal/postgres/setup.
package postgres
