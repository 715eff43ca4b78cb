"""The headless browser that runs programs: its page, its watchdog, its reports."""
