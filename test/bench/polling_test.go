package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMiddleOfTwoPassesLiesBetweenThem(t *testing.T) {
	seconds := func(all ...int) float64 {
		var costs []cost
		for _, s := range all {
			costs = append(costs, cost{Server: time.Duration(s) * time.Second})
		}
		return middle(costs, func(c cost) float64 { return c.Server.Seconds() })
	}
	require.Equal(t, 7.0, seconds(7))
	require.Equal(t, 6.0, seconds(8, 4))
	require.Equal(t, 4.0, seconds(8, 4, 1))
}
