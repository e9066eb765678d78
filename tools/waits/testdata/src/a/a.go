package a

import "time"

func pause() { time.Sleep(time.Second) }
