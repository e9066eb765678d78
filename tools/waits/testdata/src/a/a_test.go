package a

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const patience = 5 * time.Second

func yes() bool { return true }

func TestSleep(t *testing.T) {
	pause()
	time.Sleep(time.Millisecond)   // want `time.Sleep in real time`
	<-time.After(time.Millisecond) // want `<-time.After is a sleep`
	func() {
		time.Sleep(time.Millisecond) // want `time.Sleep in real time`
	}()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		<-time.After(time.Hour)
		go func() { time.Sleep(time.Hour) }()
		require.Eventually(t, yes, time.Second, time.Second)
	})
	time.Sleep(time.Millisecond) //waits:ok the file system counts time in milliseconds

	//waits:ok the file system counts time in milliseconds, and what
	// is written in between is not seen
	time.Sleep(time.Millisecond)

	time.Sleep(time.Millisecond) //waits:okay for once // want `time.Sleep in real time`

	//waits:ok // want `needs a reason`
	time.Sleep(time.Millisecond)

	//waits:ok nothing is here // want `allows nothing`
	pause()
}

// advance lets the bubble's time go by.
//
//waits:bubble
func advance() { time.Sleep(time.Hour) }

// inBubble runs f in a bubble.
//
//waits:bubble
func inBubble(t *testing.T, f func()) { synctest.Test(t, func(*testing.T) { f() }) }

type clock struct{}

//waits:bubble
func (clock) advance(then func()) { time.Sleep(time.Hour); then() }

func TestMarked(t *testing.T) {
	inBubble(t, func() {
		advance()
		time.Sleep(time.Hour)
	})
	clock{}.advance(func() { time.Sleep(time.Hour) })
	for _, run := range []func(*testing.T){
		func(*testing.T) { //waits:bubble
			time.Sleep(time.Hour)
		},
		//waits:bubble
		func(*testing.T) { time.Sleep(time.Hour) },
		func(*testing.T) { time.Sleep(time.Hour) }, // want `time.Sleep in real time`
	} {
		synctest.Test(t, run)
	}
	synctest.Test(t, passedByName)
}

func passedByName(*testing.T) { time.Sleep(time.Hour) }

func TestEventually(t *testing.T) {
	require.Eventually(t, yes, time.Minute, time.Millisecond)
	require.Eventually(t, yes, 30*time.Second, time.Millisecond)
	require.Eventually(t, yes, time.Until(time.Now()), time.Millisecond)
	require.Eventually(t, yes, 29*time.Second, time.Millisecond)        // want `Eventually gives up after 29s`
	assert.Eventuallyf(t, yes, patience, time.Millisecond, "")          // want `Eventuallyf gives up after 5s`
	require.New(t).Eventually(yes, 10*time.Second, time.Millisecond)    // want `Eventually gives up after 10s`
	assert.EventuallyWithT(t, func(*assert.CollectT) {}, 1e9, patience) // want `EventuallyWithT gives up after 1s`
	require.Eventually(t, yes, time.Second, time.Millisecond)           //waits:ok it has to fail
	require.Eventually(t, func() bool { time.Sleep(1); return true },   // want `time.Sleep in real time`
		time.Second, time.Millisecond) // want `Eventually gives up after 1s`
	//waits:ok it has to fail
	require.Eventually(t, func() bool {
		return false
	}, time.Second, time.Millisecond)
}

func TestSelect(t *testing.T) {
	done := make(chan struct{})
	select {
	case <-done:
	case <-time.After(time.Minute):
	}
	select {
	case <-done:
	case <-time.After(patience): // want `this select waits only 5s`
		time.Sleep(1) // want `time.Sleep in real time`
	}
	select {
	case <-done:
	case now := <-time.After(patience): // want `this select waits only 5s`
		_ = now
	}
	select {
	case <-done:
	//waits:ok nothing may come
	case <-time.After(patience):
	}
	synctest.Test(t, func(*testing.T) {
		select {
		case <-done:
		case <-time.After(patience):
		}
	})
}
