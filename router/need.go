package router

// Need is a column that records are built from. The list of needs is the only place that knows these columns: the
// router checks a table against the list, and the checks of table and publication before a start use the same list.
type Need struct {
	// which of Columns it is, as router.columns has it (with the preset debezium, its counterpart); empty: another one
	Role    string
	Key     string // the setting that names it
	Column  string
	Purpose string // "it holds …", "the key is built from it"

	Required bool // without it every row is a bad one
	Usual    bool // if it is not required: its absence is worth a word
}

// Needs lists the columns that a configuration reads.
type Needs []Need

// Add appends a need, unless no column is configured for it.
func (n *Needs) Add(need Need) {
	if need.Column != "" {
		*n = append(*n, need)
	}
}
