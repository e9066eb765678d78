// Package require has the names of testify that the analyzer knows.
package require

import "time"

type TestingT interface {
	Errorf(format string, args ...any)
}

type CollectT struct{}

type Assertions struct{}

func New(TestingT) *Assertions { return nil }

func Eventually(TestingT, func() bool, time.Duration, time.Duration, ...any) {}

func Eventuallyf(TestingT, func() bool, time.Duration, time.Duration, string, ...any) {}

func EventuallyWithT(TestingT, func(*CollectT), time.Duration, time.Duration, ...any) {}

func (*Assertions) Eventually(func() bool, time.Duration, time.Duration, ...any) {}
