package config

import (
	"errors"
	"strconv"
	"strings"
)

// Share is a part of a whole, from 0 to 1.
type Share float64

// parseShare reads a percentage, such as 1% or 0.5%, or a number from 0 to 1.
func parseShare(s string) (Share, error) {
	number, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) { // NaN is neither
		return 0, errors.New("not a share")
	}
	return Share(f), nil
}

// String returns the percentage.
func (s Share) String() string { return strconv.FormatFloat(float64(s)*100, 'g', 12, 64) + "%" }
