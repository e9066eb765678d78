package router

// Need is a column that records are made of. The list of them is the one place that knows: the router finds by it
// whether a table will do, and whoever looks at table and publication beforehand asks for the same.
type Need struct {
	// which of Columns it is, as router.columns has it (with the preset debezium, its counterpart); empty: another one
	Role    string
	Key     string // the setting that names it
	Column  string
	Purpose string // "it holds …", "the key is made of it"

	Required bool // without it every row is a bad one
	Usual    bool // where it is not required: that a table lacks it is worth a word
}

// Needs lists the columns that a configuration reads.
type Needs []Need

// Add appends a need, unless no column is configured for it.
func (n *Needs) Add(need Need) {
	if need.Column != "" {
		*n = append(*n, need)
	}
}
