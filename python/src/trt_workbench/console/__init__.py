"""What all commands share: options made of settings, tables, progress, interrupts, exit codes."""
