package child

import "syscall"

func dieWithParent(attr *syscall.SysProcAttr, onDeath syscall.Signal) { attr.Pdeathsig = onDeath }
