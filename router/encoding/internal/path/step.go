// Package path writes the path of a member without values of the document.
package path

// Step is a member in a path. A name that is not an identifier may be a value, and is left out.
func Step(name string) string {
	const longest = 64
	if name == "" || len(name) > longest {
		return ".*"
	}
	for i := range len(name) {
		c := name[i]
		if (c < '0' || c > '9' || i == 0) && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') {
			return ".*"
		}
	}
	return "." + name
}
