package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size int64

// units go from the largest down, so that String finds the unit that fits. Names with an i are powers of 1024, names
// without an i powers of 1000, as in IEC 80000-13: 1GB in a configuration means the same as on the label of a disk.
var units = []struct {
	name   string
	factor Size
}{
	{"TiB", 1 << 40},
	{"TB", 1e12},
	{"GiB", 1 << 30},
	{"GB", 1e9},
	{"MiB", 1 << 20},
	{"MB", 1e6},
	{"KiB", 1 << 10},
	{"kB", 1e3},
	{"B", 1},
}

// parseSize reads a whole number with a unit, such as 32MiB or 10GB; without a unit it is bytes.
func parseSize(s string) (Size, error) {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.TrimSpace(s[len(digits):])
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("not a size")
	}
	factor := Size(1)
	if unit != "" {
		factor = 0
		for _, u := range units {
			if strings.EqualFold(unit, u.name) {
				factor = u.factor
			}
		}
	}
	if factor == 0 {
		return 0, fmt.Errorf("%q is not a unit", unit)
	}
	if Size(n) > math.MaxInt64/factor {
		return 0, fmt.Errorf("too large")
	}
	return Size(n) * factor, nil
}

// String returns the shortest exact form, with units of 1024 first.
func (s Size) String() string {
	for _, u := range units {
		if strings.Contains(u.name, "i") && s != 0 && s%u.factor == 0 {
			return strconv.FormatInt(int64(s/u.factor), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
