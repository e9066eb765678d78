// Package sink is the contract between the sources of rows and a broker. A source knows this package alone; the means
// of a broker (epochs, transactions, partitions, connections) are its adapter's, a directory below.
//
// A producer serves one tenure of the source after the other. Begin opens one: from then on no earlier owner can write,
// as far as the broker can keep it out, and Stored says how far it came. Within a tenure a failure ends in one of two
// ways. Either the adapter sends the same records again in the same order, which no source notices, or the tenure
// is over (ErrSessionOver, ErrFenced): the source calls Abandon, begins again, and reads from its own position whatever
// was not acknowledged.
//
// Trouble says the reason of a wait, its begin and the next step, in the same form for each broker, so that one
// diagnosis serves all.
package sink
