// Package statetables has the definitions of the tables in which a relay keeps its own state beside the outbox:
// columns, the rights that a role needs, and what an earlier version's table lacks. It holds text only; setup runs it,
// and the packages that read and write a table speak their own SQL.
package statetables
