"""Services for sessions: create, launch, take over, keep drivers warm, close."""
