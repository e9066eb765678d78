//go:build replay

package simulation

import _ "unsafe" // for go:linkname

// replays reports whether a run can be repeated exactly.
const replays = true

//go:linkname replaySeed runtime.replaySeed
func replaySeed(seed uint64)
